//! How a node is.

use super::world::World;

#[tokio::test]
async fn a_node_tells_how_it_is() {
    let world = World::new().await;
    let client = world.client();
    let ready = client.readiness().await;
    assert_eq!(ready[0].url.trim_end_matches('/'), world.url);
    let readiness = ready[0].answer.as_ref().unwrap();
    assert_eq!((&*readiness.node, readiness.draining), ("n1", false));
    client.liveness().await[0].answer.as_ref().unwrap();
    let metrics = client.metrics().await;
    let text = metrics[0].answer.as_ref().unwrap();
    assert!(text.contains("fencepost_"), "{text}");
    assert!(client.openapi().await.unwrap()["openapi"].is_string());
    world.node.drain();
    let draining = client.readiness().await;
    let refused = draining[0].answer.as_ref().unwrap_err();
    assert_eq!(refused.code().unwrap().word(), "stopping");
}
