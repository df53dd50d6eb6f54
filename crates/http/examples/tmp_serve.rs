//! temporary
#![allow(clippy::unwrap_used, missing_docs)]
#[allow(dead_code, unused_imports)]
#[path = "../tests/api/world.rs"]
mod world;
use fencepost_http::serve;
#[tokio::main]
async fn main() {
    let keyed = std::env::args().nth(1).is_some();
    let mut w = world::World::new();
    if keyed {
        w.access = fencepost_http::Access::from_toml("[[key]]\nname=\"a\"\nsha256=\"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\nscopes=[\"submit\",\"read\",\"operate\"]\n").unwrap();
    }
    let s = w.server().await;
    let l = tokio::net::TcpListener::bind("127.0.0.1:8799")
        .await
        .unwrap();
    serve(w.api(&s), l, std::future::pending()).await.unwrap();
}
