//! Judging a failover. Each node says what it misses of what it acknowledged, and lets the lanes go on that it led last
//! and of which nothing is missing. What follows from what was found is decided in the domain.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use fencepost_app::ports::{Holder, StoreError, Vouched};
use fencepost_domain::failover::{
    Acknowledged, Found, Lease, Loss, Others, Verdict, Witness, decide, goes_on,
};
use fencepost_domain::ids::{LaneId, LaneSeq, Nonce, Token};
use jiff::Timestamp;
use uuid::Uuid;

use crate::failover::LIVING;
use crate::row::column;
use crate::witness::{Chapter, Frozen, Said};
use crate::{PostgresStore, micros};

/// How many lanes one statement judges.
const LANES_MAX: usize = 4_096;
/// How soon waiting lanes are looked at again once other nodes have been silent for long.
const PATIENT: Duration = Duration::from_secs(5);

const REPORT: &str = include_str!("../sql/report.sql");
const LIFT: &str = include_str!("../sql/lift.sql");
const DECIDE_FEED: &str = include_str!("../sql/decide_feed.sql");

/// Where the server stands, and which of these eras it continues.
const STANDING: &str = "
SELECT s.era = $1 AS is_current, e.follows,
       EXISTS (SELECT FROM failover_node WHERE era = $1)
       OR EXISTS (SELECT FROM failover_lane WHERE era = $1) AS is_judged,
       ARRAY(SELECT k.era FROM store_era k WHERE k.era = ANY($2::uuid[])) AS continues
  FROM store_identity s LEFT JOIN store_era e ON e.era = s.era";

/// Which of these the server does not have, by their places.
const MISSING: &str = "
SELECT s.ord::int AS place
  FROM unnest($1::uuid[], $2::timestamptz[], $3::bigint[], $4::boolean[])
       WITH ORDINALITY AS s(id, until, remedy, is_act, ord)
 WHERE NOT CASE
       WHEN s.is_act THEN EXISTS (SELECT FROM remedy r WHERE r.act = s.id)
       WHEN s.remedy IS NOT NULL THEN EXISTS (
            SELECT FROM remedy r WHERE r.remedy_id = s.remedy AND r.tx_id = s.id)
       ELSE EXISTS (SELECT FROM managed_tx m
                     WHERE m.tx_id = s.id AND (s.until IS NULL OR m.reserve_expires_at >= s.until)) END
 ORDER BY s.ord";

const FOUND: &str = "
SELECT lane_id, token, next_nonce, lane_seq, held_before
  FROM failover_lane WHERE lane_id = ANY($1) AND era = $2";

const SILENT: &str = "
SELECT n.node_id, n.forgot,
       s.changed_at <= clock_timestamp() - $2::bigint * interval '1 microsecond' AS is_overdue
  FROM failover_node n, store_identity s
 WHERE s.era = $1 AND n.era = $1 AND n.reported_at IS NULL
 ORDER BY n.node_id";

/// A lane of which we miss nothing.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    lane: i64,
    witness: Witness,
    lease: Lease,
}

/// A failover that this node has reported on, while lanes wait for other nodes.
pub(crate) struct Judgement {
    era: Uuid,
    at: Instant,
    candidates: Vec<Candidate>,
    look_at: Instant,
    /// As at the last look.
    silent: Vec<String>,
    others: Others,
}

/// What this node misses.
#[derive(Default)]
struct Missing {
    by_lane: HashMap<i64, Loss>,
    /// More is missing than is remembered.
    forgot: bool,
}

/// A chapter that the server has no report of, and whether it comes right after that chapter: then numbers of both can be
/// compared.
type Open<'a> = (&'a Chapter, bool);

impl PostgresStore {
    pub(crate) async fn vouch_lanes(&self, holder: &Holder) -> Result<Vouched, StoreError> {
        let mut judging = self.judging.lock().await;
        let mut vouched = Vouched::default();
        let memory = &self.connections.memory;
        self.rejoin(holder).await?;
        if let Some(frozen) = memory.frozen() {
            *judging = self.judge(holder, &frozen, &mut vouched).await?;
        }
        if let Some(judgement) = judging.as_mut()
            && self.go_on(judgement, &mut vouched).await?
        {
            *judging = None;
        }
        if memory.feed_waits() {
            let over = micros(self.terms().duration * LIVING);
            let decided = self.connections.write_plain(DECIDE_FEED, &[&over]).await?;
            if let Some(row) = decided.first() {
                memory.set_feed_waits(column(row, "waits")?);
                vouched.feed_lost |= column::<bool>(row, "feed_lost")?;
            }
        }
        Ok(vouched)
    }

    /// Reports what we miss. None where another server has taken this one's place meanwhile, or where the lanes are held
    /// for good.
    async fn judge(
        &self,
        holder: &Holder,
        frozen: &Frozen,
        vouched: &mut Vouched,
    ) -> Result<Option<Judgement>, StoreError> {
        let memory = &self.connections.memory;
        let chapters = frozen.chapters.iter();
        let eras: Vec<Uuid> = chapters.flat_map(|(_, reported)| *reported).collect();
        let rows = self
            .connections
            .read(STANDING, &[&frozen.era, &eras])
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        if !column::<bool>(row, "is_current")? {
            return Ok(None);
        }
        if !column::<bool>(row, "is_judged")? {
            // The node that noted the failover was set to hold all lanes, and the feed has its new epoch already.
            memory.reported(frozen.era);
            return Ok(None);
        }
        let continues: Vec<Uuid> = column(row, "continues")?;
        let follows: Option<Uuid> = column(row, "follows")?;
        let open: Vec<Open<'_>> = frozen
            .chapters
            .iter()
            // What we reported to a server that this one continues is settled.
            .filter(|(_, reported)| reported.is_none_or(|era| !continues.contains(&era)))
            .map(|(chapter, _)| (&**chapter, follows == Some(chapter.era)))
            .collect();
        let candidates = self.report(holder, frozen, &open, vouched).await?;
        if candidates.is_some() {
            memory.reported(frozen.era);
        }
        Ok(candidates.map(|candidates| Judgement {
            era: frozen.era,
            at: frozen.at,
            candidates,
            look_at: frozen.at,
            silent: vec![],
            others: Others::Silent { overdue: false },
        }))
    }

    /// Says what we miss, and returns the lanes of which that is nothing; none where the server is no longer this one.
    async fn report(
        &self,
        holder: &Holder,
        frozen: &Frozen,
        open: &[Open<'_>],
        vouched: &mut Vouched,
    ) -> Result<Option<Vec<Candidate>>, StoreError> {
        let mut missing = self.missing(open).await?;
        let forgot = missing.forgot || frozen.forgot;
        let lanes = open
            .iter()
            .flat_map(|(chapter, _)| chapter.known.lanes.keys());
        let concerned: BTreeSet<i64> = lanes.chain(missing.by_lane.keys()).copied().collect();
        let concerned: Vec<i64> = concerned.into_iter().collect();
        let found = self.found(frozen.era, &concerned).await?;
        let mut candidates = Vec::new();
        for lane in concerned {
            let missing = missing.by_lane.remove(&lane);
            let known = self.known_of(frozen, open, lane);
            match self::verdict(&known, missing, found.get(&lane)) {
                Verdict::Whole(witness, lease) => candidates.push(Candidate {
                    lane,
                    witness,
                    lease,
                }),
                Verdict::NotOurs => {}
                Verdict::HeldBefore => vouched.held_before.push(LaneId(lane)),
                Verdict::Lost(loss) => vouched.lost.push((LaneId(lane), loss)),
            }
        }
        let lost: Vec<i64> = vouched.lost.iter().map(|(lane, _)| lane.0).collect();
        let why = vouched.lost.iter().map(|(_, loss)| loss.to_string());
        let why: Vec<String> = why.collect();
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let (era, fed) = (frozen.era, fed(open));
        let told = self
            .connections
            .write_plain(
                REPORT,
                &[&era, &node, &incarnation, &fed, &lost, &why, &forgot],
            )
            .await?;
        let Some(row) = told.first() else {
            return Ok(None);
        };
        vouched.feed_lost |= column::<bool>(row, "feed_lost")?;
        Ok(column::<bool>(row, "is_current")?.then_some(candidates))
    }

    /// What we know of a lane, by chapter. Only of the last chapter can it be that our lease was still alive.
    fn known_of(&self, frozen: &Frozen, open: &[Open<'_>], lane: i64) -> Vec<Acknowledged> {
        let last = frozen.chapters.last().map(|(chapter, _)| chapter.era);
        open.iter()
            .filter_map(|(chapter, comparable)| {
                let known = chapter.known.lanes.get(&lane)?;
                let alive = last == Some(chapter.era) && chapter.leads(known, self.terms());
                Some(Acknowledged {
                    witness: known.witness,
                    seen: known.seen,
                    lease: if alive { Lease::Alive } else { Lease::RunOut },
                    comparable: *comparable,
                })
            })
            .collect()
    }

    /// Lets go on what may. True when nothing is left to wait for.
    async fn go_on(
        &self,
        judgement: &mut Judgement,
        vouched: &mut Vouched,
    ) -> Result<bool, StoreError> {
        if judgement.look_at <= Instant::now() && self.lift_whole(judgement, vouched).await? {
            return Ok(true);
        }
        vouched.waiting = judgement.candidates.len();
        vouched.silent.clone_from(&judgement.silent);
        vouched.overdue = judgement.others != Others::Silent { overdue: false };
        Ok(judgement.candidates.is_empty())
    }

    async fn lift_whole(
        &self,
        judgement: &mut Judgement,
        vouched: &mut Vouched,
    ) -> Result<bool, StoreError> {
        let era = judgement.era;
        // Before the lanes: what does not go on although all have reported never will.
        (judgement.silent, judgement.others) = self.silent(era).await?;
        let others = judgement.others;
        let (ready, waiting): (Vec<_>, Vec<_>) = judgement
            .candidates
            .iter()
            .partition(|candidate| goes_on(candidate.lease, others));
        let mut lifted = HashSet::new();
        for chunk in ready.chunks(LANES_MAX) {
            lifted.extend(self.lift(era, chunk, &judgement.silent).await?);
        }
        vouched.gone_on.extend(lifted.iter().copied().map(LaneId));
        if others == Others::Reported {
            return Ok(true);
        }
        if !lifted.is_empty() {
            vouched.unheard.clone_from(&judgement.silent);
        }
        let left = ready
            .into_iter()
            .filter(|each| !lifted.contains(&each.lane));
        judgement.candidates = left.chain(waiting).collect();
        if judgement.at.elapsed() > self.terms().duration * LIVING {
            judgement.look_at = Instant::now() + PATIENT;
        }
        Ok(false)
    }

    /// The nodes that lived at the failover and have not reported.
    async fn silent(&self, era: Uuid) -> Result<(Vec<String>, Others), StoreError> {
        let lease = self.lease_micros();
        let rows = self.connections.read(SILENT, &[&era, &lease]).await?;
        let mut nodes = Vec::with_capacity(rows.len());
        let mut others = Others::Reported;
        for row in &rows {
            nodes.push(column(row, "node_id")?);
            let (forgot, overdue) = (column(row, "forgot")?, column(row, "is_overdue")?);
            others = match others {
                Others::Forgot => Others::Forgot,
                Others::Reported | Others::Silent { .. } if forgot => Others::Forgot,
                Others::Reported | Others::Silent { .. } => Others::Silent { overdue },
            };
        }
        Ok((nodes, others))
    }

    async fn lift(
        &self,
        era: Uuid,
        lanes: &[Candidate],
        unheard: &[String],
    ) -> Result<Vec<i64>, StoreError> {
        let of = |number: fn(&Candidate) -> i64| lanes.iter().map(number).collect::<Vec<i64>>();
        let ids = of(|each| each.lane);
        let tokens = of(|each| each.witness.token.column());
        let nonces = of(|each| each.witness.next_nonce.column());
        let seqs = of(|each| each.witness.lane_seq.column());
        let lifted = self
            .connections
            .write_plain(LIFT, &[&era, &ids, &tokens, &nonces, &seqs, &unheard])
            .await?;
        lifted.iter().map(|row| column(row, "lane_id")).collect()
    }

    /// What we acknowledged outside of led lanes and the server does not have, by lane. A server's log ends at one point:
    /// where the oldest that we remember is missing, so may be older ones that we have forgotten.
    async fn missing(&self, open: &[Open<'_>]) -> Result<Missing, StoreError> {
        let mut missing = Missing::default();
        for (chapter, _) in open {
            let said = &chapter.known.said;
            let ids: Vec<Uuid> = said.iter().map(|(.., said)| said.id()).collect();
            let until: Vec<Option<Timestamp>> =
                said.iter().map(|(.., each)| each.until()).collect();
            let remedies: Vec<Option<i64>> = said.iter().map(|(.., each)| each.remedy()).collect();
            let is_act = |said: &Said| matches!(said, Said::Act(_));
            let acts: Vec<bool> = said.iter().map(|(.., said)| is_act(said)).collect();
            let found = self
                .connections
                .read(MISSING, &[&ids, &until, &remedies, &acts])
                .await?;
            for row in &found {
                let place: i32 = column(row, "place")?;
                let place = usize::try_from(place).unwrap_or_default().saturating_sub(1);
                let Some((_, lane, said)) = said.get(place) else {
                    continue;
                };
                missing.forgot |= place == 0 && chapter.known.forgot;
                let first = said.to_string();
                let loss = missing
                    .by_lane
                    .entry(*lane)
                    .or_insert(Loss::Acknowledged { count: 0, first });
                if let Loss::Acknowledged { count, .. } = loss {
                    *count += 1;
                }
            }
        }
        if missing.forgot {
            tracing::error!(
                "the database was failed over to a server that lacks more than this node remembers: lanes are held until `signers reconcile --after-failover`"
            );
        }
        Ok(missing)
    }

    async fn found(&self, era: Uuid, lanes: &[i64]) -> Result<HashMap<i64, Found>, StoreError> {
        let mut found = HashMap::with_capacity(lanes.len());
        for chunk in lanes.chunks(LANES_MAX) {
            for row in &self.connections.read(FOUND, &[&chunk, &era]).await? {
                let lane = Found {
                    token: Token::from_column(column(row, "token")?)?,
                    next_nonce: Nonce::from_column(column(row, "next_nonce")?)?,
                    lane_seq: LaneSeq::from_column(column(row, "lane_seq")?)?,
                    held: column(row, "held_before")?,
                };
                found.insert(column(row, "lane_id")?, lane);
            }
        }
        Ok(found)
    }

    /// After a lost reply, lanes whose writes were found by reading: how far their events go is what we acknowledge.
    pub(crate) async fn see_events(&self, lanes: &[i64]) -> Result<(), StoreError> {
        if lanes.is_empty() {
            return Ok(());
        }
        let sql = "SELECT lane_id, lane_seq FROM signer_lease WHERE lane_id = ANY($1)";
        let (rows, server) = self.connections.read_from(sql, &[&lanes]).await?;
        for row in &rows {
            let seq = LaneSeq::from_column(column(row, "lane_seq")?)?;
            let lane = column(row, "lane_id")?;
            self.connections.memory.saw(server, lane, seq)?;
        }
        Ok(())
    }
}

fn verdict(known: &[Acknowledged], missing: Option<Loss>, found: Option<&Found>) -> Verdict {
    let Some(found) = found else {
        // The server does not have the lane itself.
        let first = "the lane itself".to_owned();
        return Verdict::Lost(Loss::Acknowledged { count: 1, first });
    };
    decide(known, missing, *found)
}

/// How far readers here were told. A number of a server that this one does not come right after says nothing: any is too
/// far.
fn fed(open: &[Open<'_>]) -> i64 {
    let far = |(chapter, comparable): &Open<'_>| match chapter.known.fed {
        0 => 0,
        _ if !comparable => i64::MAX,
        fed => fed,
    };
    open.iter().map(far).max().unwrap_or(0)
}
