//! PostgreSQL as people run it: schemas, roles, TLS, several hosts, poolers, settings of roles. Every test
//! ends in the same question: does a lane give nonces and end its transactions there, or is the setup
//! refused in one line that names what is wrong?

mod setups {
    pub(crate) mod node;
    mod schema;
    mod role;
    mod settings;
    mod hosts;
    mod pooler;
    mod tls;
}
