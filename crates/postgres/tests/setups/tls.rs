//! TLS against a server that lets its application in by TLS alone.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use fencepost_postgres::{Password, Settings, SslMode, Tls};
use fencepost_testkit::postgres::{Cluster, Options};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use super::node::{refusal, settings, works};

/// An authority, and what it has signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// A certificate and its key, for host names or for a person.
    fn sign(&self, names: &[&str], person: &str) -> Result<(String, String)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, person);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// A server with a certificate for `localhost` and no other name.
struct Secured {
    cluster: Cluster,
    directory: TempDir,
    database: String,
}

const PASSWORD: &str = "sesame";

impl Secured {
    /// `rule` says what the role `app` must bring.
    async fn start(rule: &str) -> Result<Self> {
        let (server, clients) = (Authority::new("server")?, Authority::new("clients")?);
        let (certificate, key) = server.sign(&["localhost"], "server")?;
        let hba = format!(
            "hostssl all app 127.0.0.1/32 {rule}\nhost all fencepost 127.0.0.1/32 trust\nlocal all all trust\n"
        );
        let files = [
            ("server.crt", certificate),
            ("server.key", key),
            ("clients.crt", clients.0.pem()),
            ("pg_hba.conf", hba),
        ];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let settings = [("ssl", "on"), ("ssl_ca_file", "clients.crt")]
            .map(own)
            .into();
        let files = files
            .map(|(name, contents)| (name.to_owned(), contents))
            .into();
        let cluster = Cluster::start_with(Options { settings }, files).await?;
        let database = cluster.create_database().await?;
        let sql = format!(
            "SET password_encryption = 'scram-sha-256';
             CREATE ROLE app LOGIN PASSWORD '{PASSWORD}';
             GRANT CREATE ON SCHEMA public TO app"
        );
        database.connect().await?.batch_execute(&sql).await?;
        let directory = tempfile::tempdir()?;
        let (certificate, key) = clients.sign(&[], "app")?;
        let (stranger, strangers_key) = server.sign(&[], "app")?;
        for (name, contents) in [
            ("root.pem", server.0.pem()),
            ("other.pem", Authority::new("server")?.0.pem()),
            ("app.pem", certificate),
            ("app.key", key),
            ("stranger.pem", stranger),
            ("stranger.key", strangers_key),
            ("password", format!("{PASSWORD}\n")),
        ] {
            fs::write(directory.path().join(name), contents)?;
        }
        let database = database.name().to_owned();
        Ok(Self {
            cluster,
            directory,
            database,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn node(&self, host: &str, mode: SslMode, root: Option<&str>) -> Result<Settings> {
        let port = self.cluster.addr()?.port();
        let url = format!("postgres://app@{host}:{port}/{}", self.database);
        // The name is not looked up: it may have an IPv6 address here, where nobody listens.
        let url = format!("{url}?hostaddr=127.0.0.1");
        let tls = Tls {
            mode: Some(mode),
            root: root.map(|name| self.file(name)),
            ..Tls::default()
        };
        let password = Password::File(self.file("password"));
        Ok(Settings {
            tls,
            password,
            ..settings(url)
        })
    }

    async fn why(&self, host: &str, mode: SslMode, root: Option<&str>) -> Result<String> {
        refusal(self.node(host, mode, root)?).await
    }
}

#[tokio::test]
async fn a_server_that_lets_in_by_tls_alone_is_used_in_every_mode_but_disable() -> Result<()> {
    use SslMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
    let server = Secured::start("scram-sha-256").await?;
    works(server.node("localhost", VerifyFull, Some("root.pem"))?).await?;
    for (host, mode, root) in [
        ("localhost", Prefer, None),
        ("localhost", Require, None),
        ("db.example", Require, Some("root.pem")),
        ("127.0.0.1", VerifyCa, Some("root.pem")),
    ] {
        let node = server.node(host, mode, root)?;
        fencepost_postgres::PostgresStore::attach(node).await?;
    }
    // The URL says the same in libpq's words.
    let mut node = server.node("localhost", VerifyFull, None)?;
    let root = server.file("root.pem");
    node.url = format!(
        "{}&sslmode=verify-full&sslrootcert={}&channel_binding=require",
        node.url,
        root.display()
    );
    node.tls = Tls::default();
    fencepost_postgres::PostgresStore::attach(node).await?;

    let check = |why: String, parts: &[&str]| {
        for part in parts {
            assert!(why.contains(part), "{part}: {why}");
        }
    };
    let other = server.file("other.pem").display().to_string();
    let why = server
        .why("localhost", VerifyFull, Some("other.pem"))
        .await?;
    check(why, &["not issued by store.sslrootcert", &other]);
    let why = server.why("localhost", VerifyCa, Some("other.pem")).await?;
    check(why, &["not issued by store.sslrootcert"]);
    let why = server.why("localhost", Require, Some("other.pem")).await?;
    check(why, &["not issued by store.sslrootcert"]);
    let why = server
        .why("db.example", VerifyFull, Some("root.pem"))
        .await?;
    check(why, &["another host name", "db.example", "localhost"]);
    let why = server
        .why("127.0.0.1", VerifyFull, Some("root.pem"))
        .await?;
    check(why, &["another host name"]);
    let why = server.why("localhost", VerifyFull, None).await?;
    check(why, &["sslrootcert"]);
    let why = server.why("localhost", VerifyCa, None).await?;
    check(
        why,
        &["store.sslrootcert: is needed with sslmode verify-ca"],
    );
    let why = server.why("localhost", Disable, None).await?;
    check(why, &["pg_hba.conf", "store.sslmode = \"disable\""]);
    let why = server
        .why("localhost", VerifyFull, Some("nowhere.pem"))
        .await?;
    check(why, &["store.sslrootcert: ", "nowhere.pem cannot be used"]);

    fs::write(server.file("password"), "wrong")?;
    let why = server.why("localhost", Require, None).await?;
    check(why, &["refused the login", "password"]);
    fs::remove_file(server.file("password"))?;
    let why = server.why("localhost", Require, None).await?;
    check(why, &["store.password_file: ", "cannot be read"]);
    Ok(())
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_of_ours_gets_it() -> Result<()> {
    let server = Secured::start("scram-sha-256 clientcert=verify-ca").await?;
    let bare = server.node("localhost", SslMode::VerifyFull, Some("root.pem"))?;
    let with = |cert: &str, key: &str| {
        let mut node = bare.clone();
        node.tls.cert = Some(server.file(cert));
        node.tls.key = Some(server.file(key));
        node
    };
    works(with("app.pem", "app.key")).await?;
    let why = refusal(bare.clone()).await?;
    assert!(
        why.contains("certificate") && why.contains("store.sslcert is not set"),
        "{why}"
    );
    let why = refusal(with("stranger.pem", "stranger.key")).await?;
    assert!(
        why.contains("refuses the certificate of store.sslcert"),
        "{why}"
    );
    let why = refusal(with("app.pem", "stranger.key")).await?;
    assert!(why.contains("store.sslkey: "), "{why}");
    let mut half = bare.clone();
    half.tls.cert = Some(server.file("app.pem"));
    let why = refusal(half).await?;
    assert!(
        why.contains("store.sslkey: is needed beside sslcert"),
        "{why}"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let database = cluster.create_database().await?;
    let mut node = settings(database.url());
    works(node.clone()).await.context("prefer")?;
    node.tls.mode = Some(SslMode::Require);
    let why = refusal(node).await?;
    assert!(why.contains("the server does not offer TLS"), "{why}");
    assert!(why.contains("store.sslmode = \"require\""), "{why}");
    Ok(())
}
