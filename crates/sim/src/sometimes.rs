//! What a simulation is for must happen in it. Each of these is counted; over many seeds none may be zero,
//! or the simulation has stopped to look where it should.

use std::sync::Mutex;

macro_rules! sometimes {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// Something rare that is worth having happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rare {
            $($(#[$doc])* $name,)*
        }

        impl Rare {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

sometimes! {
    /// A node died.
    Crash = "a node was killed",
    /// A node died while statements of it were on their way.
    CrashInStatement = "a node was killed with a write on its way",
    /// And one of them was carried out later.
    PosthumousWrite = "a write of a dead node was carried out",
    /// A node stood still.
    Pause = "a node stood still",
    /// For longer than its lease.
    PausePastLease = "a node stood still past its lease",
    /// Two starts of one id lived.
    Ghost = "a node woke up as the ghost of its later start",
    /// A node left in order.
    GracefulStop = "a node stopped in order",
    /// A lane changed hands.
    Takeover = "a lane was taken over from another node",
    /// While its old leader had a batch under way.
    TakeoverInBatch = "a lane was taken over while a batch of it was on its way",
    /// A nonce in a lane in which only one may not be final.
    OneAfterTheOther = "a nonce was given after the last one was final, as configured",
    /// A write came too late.
    Fenced = "a write was fenced",
    /// One that would have given nonces.
    FencedCreate = "a create was fenced",
    /// One that would have stored bytes.
    FencedAttempt = "the storing of signed bytes was fenced",
    /// A store did not answer and had done it.
    LostReply = "the reply to a commit was lost",
    /// A store did not answer and did it later.
    LateCommit = "a write was carried out after its caller was told that nobody knows",
    /// The store was away.
    StoreAway = "the store was away for a while",
    /// A client was told that nobody knows.
    ClientUnknown = "a client was told that the outcome is unknown",
    /// And had been accepted.
    UnknownWasStored = "a request of unknown outcome turned out to be stored",
    /// A client tried again.
    RetryKnown = "a retry was answered with the first try's transaction",
    /// One name for two things.
    Conflict = "one request id for two payloads was refused",
    /// A request waited for a leader.
    Queued = "a request was queued without a nonce",
    /// A request was handed to the leader.
    Forwarded = "a request was forwarded to the leader",
    /// And no answer came.
    ForwardLost = "the answer to a forwarded request was lost",
    /// A node took it and said nothing.
    AmbiguousAccepted = "a send without an answer had been accepted",
    /// A node took it and said no.
    RefusedAccepted = "a send that was refused had been accepted",
    /// A node said yes and threw it away.
    Forgotten = "an endpoint took bytes and forgot them",
    /// A pool dropped something.
    Evicted = "a pool dropped a transaction",
    /// Blocks were replaced.
    Reorg = "blocks were replaced",
    /// With a transaction in them.
    ReorgOfMined = "a reorg took a transaction out of its block",
    /// Deeper than what counts as final.
    ReorgBelowFinal = "a reorg went below what was final",
    /// With published blocks among them.
    ListReplaced = "a published list of confirmations was replaced by another",
    /// While nothing else went wrong.
    OpenListOutdated = "published blocks of an open list were replaced while all nodes and endpoints were sound",
    /// A final one moved on.
    ReorgAfterFinal = "a transaction was told as STUCK/REORG_AFTER_FINAL",
    /// A feed's row was corrected.
    Corrected = "a completion corrected another",
    /// Another attempt of the same nonce came into the block.
    ReorgSwap = "a reorg put another attempt of the same nonce into the block",
    /// In the middle of a remedy.
    ReorgInRemedy = "blocks were replaced while a remedy was open",
    /// Higher fees.
    Replaced = "a replacement was confirmed",
    /// Called off.
    Cancelled = "a cancel was confirmed",
    /// The original won against it.
    CancelLost = "a transaction was executed although a cancel was signed",
    /// An older attempt won against a newer one.
    OlderAttemptWon = "an older attempt was confirmed",
    /// A gap was filled.
    Placeholder = "a placeholder used a nonce up",
    /// Another payload was confirmed in a transaction's place.
    Substituted = "a payload that a policy had brought was confirmed instead",
    /// Behind a gap.
    StuckGap = "a transaction was STUCK/GAP",
    /// In no block.
    StuckNoReceipt = "a transaction was STUCK/NO_RECEIPT",
    /// Nobody wants it.
    StuckRefused = "a transaction was STUCK/REFUSED",
    /// The key did not work.
    StuckSigner = "a transaction was STUCK/SIGNER_ERROR",
    /// The key said no for good.
    Rejected = "a transaction was rejected and gave its nonce back",
    /// Its time was over.
    Expired = "a transaction expired before it had a nonce",
    /// Someone else used the key.
    NonceTaken = "a foreign transaction took a nonce for good",
    /// Executed with status 0.
    Reverted = "a transaction was reverted",
    /// Decided by a policy.
    PolicyActed = "a policy decided on a remedy",
    /// The leader died in between.
    TakeoverInRemedy = "a lane was taken over while a remedy was open",
    /// Lent and used.
    LoanUsed = "a lent nonce was used",
    /// Lent and given back by its holder.
    LoanRecycled = "a lent nonce was given back by its holder",
    /// Lent and given back by time.
    LoanExpired = "a lent nonce was given back because its time was over",
    /// A free nonce was given out again.
    FreeReused = "a nonce that was given back was given out again",
    /// A lane stood.
    LanePaused = "a lane was paused",
    /// A count ran away.
    CursorJump = "a lane was held because the chain's count ran away",
    /// A cursor followed the chain.
    CursorRaised = "a cursor was raised to the chain",
    /// A cursor went down by hand.
    CursorLowered = "a cursor was lowered by hand",
    /// Clocks jumped.
    ClockJump = "a node's time of day jumped",
    /// The store's clock moved.
    StoreClockJump = "the store's clock jumped",
    /// Endpoints were of different minds.
    EndpointBehind = "an endpoint was behind the others",
    /// On another branch.
    EndpointForked = "an endpoint stayed on the branch that was left",
    /// Too dear.
    FeesAboveCaps = "the base fee rose above what transactions pay",
    /// A lane had a full window.
    WindowFull = "a request waited for a place among those in flight",
}

/// How often each happened.
#[derive(Debug)]
pub struct Sometimes(Mutex<Vec<u64>>);

impl Default for Sometimes {
    fn default() -> Self {
        Self(Mutex::new(vec![0; Rare::ALL.len()]))
    }
}

impl Sometimes {
    /// It happened.
    pub fn saw(&self, rare: Rare) {
        let mut counts = self.counts();
        counts[place(rare)] += 1;
    }

    /// All that another has seen, too.
    pub fn add(&self, other: &Self) {
        let theirs = other.counts().clone();
        for (mine, more) in self.counts().iter_mut().zip(theirs) {
            *mine += more;
        }
    }

    /// How often it happened.
    #[must_use]
    pub fn count(&self, rare: Rare) -> u64 {
        self.counts()[place(rare)]
    }

    /// Those that never happened.
    #[must_use]
    pub fn never(&self) -> Vec<Rare> {
        let all = Rare::ALL.iter().copied();
        all.filter(|rare| self.count(*rare) == 0).collect()
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

fn place(rare: Rare) -> usize {
    let found = Rare::ALL.iter().position(|each| *each == rare);
    found.expect("all are in the list")
}
