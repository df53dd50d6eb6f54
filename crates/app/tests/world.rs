//! Several nodes in one process, on one store, in virtual time: what they answer, and who leads.

mod world {
    pub(crate) mod nodes;
    pub(crate) mod chain;
    mod accepting;
    mod leading;
    mod waiting;
    mod cursor;
}
