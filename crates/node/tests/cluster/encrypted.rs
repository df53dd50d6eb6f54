//! A node whose database lets its role in by TLS and a password alone: from the configuration and the environment of a real
//! process to the server's certificate.

use std::fs;

use anyhow::Result;
use fencepost_testkit::postgres::{Cluster, Options};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use super::fleet::{Fleet, request};

const PASSWORD: &str = "sesame";

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name.push(DnType::CommonName, "server");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// A server with a certificate for `localhost`, and the files of two authorities: its own and another of the same name.
struct Secured {
    cluster: Cluster,
    files: TempDir,
    database: String,
}

impl Secured {
    async fn start() -> Result<Self> {
        let (ours, other) = (authority()?, authority()?);
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned()])?;
        let certificate = params.signed_by(&key, &ours)?;
        let rules = "hostssl all app 127.0.0.1/32 scram-sha-256\n\
                     host all fencepost 127.0.0.1/32 trust\nlocal all all trust\n";
        let files = [
            ("server.crt", certificate.pem()),
            ("server.key", key.serialize_pem()),
            ("pg_hba.conf", rules.to_owned()),
        ];
        let files = files.map(|(name, contents)| (name.to_owned(), contents));
        let settings = vec![("ssl".to_owned(), "on".to_owned())];
        let cluster = Cluster::start_with(Options { settings }, files.into()).await?;
        let database = cluster.create_database().await?;
        let sql = format!(
            "SET password_encryption = 'scram-sha-256';
             CREATE ROLE app LOGIN PASSWORD '{PASSWORD}';
             GRANT CREATE ON SCHEMA public TO app"
        );
        database.connect().await?.batch_execute(&sql).await?;
        let files = tempfile::tempdir()?;
        fs::write(files.path().join("ours.pem"), ours.pem())?;
        fs::write(files.path().join("other.pem"), other.pem())?;
        let database = database.name().to_owned();
        Ok(Self {
            cluster,
            files,
            database,
        })
    }

    /// The nodes' URL has no password.
    fn fleet(&self, root: &str) -> Result<Fleet> {
        let port = self.cluster.addr()?.port();
        let root = self.files.path().join(root);
        // The name is not looked up: it may have an IPv6 address here, on which the server does not listen.
        let url = format!(
            "postgres://app@localhost:{port}/{}?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={}",
            self.database,
            root.display()
        );
        Fleet::new(url)
    }
}

#[tokio::test]
async fn the_servers_authority_and_the_password_of_the_environment_decide_at_the_start()
-> Result<()> {
    let server = Secured::start().await?;
    let node = server.fleet("ours.pem")?.env("PGPASSWORD", PASSWORD);
    let node = node.start("a").await?;
    let answer = node.post(&request(1, Some("first"))).await?;
    assert!(answer.is_accepted(), "{answer:?}");

    let wrong = server.fleet("other.pem")?.env("PGPASSWORD", PASSWORD);
    let why = wrong.refused("b").await?;
    assert!(why.contains("certificate"), "{why}");

    let wrong = server.fleet("ours.pem")?.env("PGPASSWORD", "mellon");
    let why = wrong.refused("c").await?;
    assert!(why.contains("password authentication failed"), "{why}");

    let why = server.fleet("ours.pem")?.refused("d").await?;
    assert!(why.contains("password"), "{why}");
    Ok(())
}
