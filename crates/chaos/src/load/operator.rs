//! Operators: they have things done to transactions that are under way, whether that is wise or not, and pause
//! lanes for a moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::business::Known;
use super::call::{get, post};
use crate::dice::Dice;
use crate::note::{Meaning, Note, now};
use crate::world::World;

pub(crate) struct Operator {
    pub(crate) world: Arc<World>,
    pub(crate) known: Arc<Known>,
    pub(crate) dice: Dice,
}

/// Asks one node for a remedy, and notes what it said.
pub(crate) async fn remedy(world: &World, node: usize, tx: &str, action: &str) {
    let body = json!({ "action": action, "reason": "chaos" });
    let path = format!("/api/v1/tx/{tx}/remedy");
    let heard = post(world, node, &path, &body).await;
    world.journal.note(&Note::Remedy {
        at: now(),
        tx: tx.to_owned(),
        action: action.to_owned(),
        answer: heard.answer,
    });
}

/// Pauses or resumes a lane at the first node that does it; says whether one did.
pub(crate) async fn lane_act(world: &World, lane: usize, verb: &str) -> bool {
    let of = world.lanes[lane];
    let path = format!("/api/v1/signers/{}/{verb}", of.signer);
    let body = json!({ "chain": of.chain.name(), "reason": "chaos" });
    for node in 0..world.nodes.len() {
        let heard = post(world, node, &path, &body).await;
        let meaning = heard.answer.meaning();
        world.journal.note(&Note::Laned {
            at: now(),
            lane,
            verb: verb.to_owned(),
            answer: heard.answer,
        });
        if meaning == Meaning::Done {
            return true;
        }
    }
    false
}

impl Operator {
    /// Acts until the world closes. Every lane that was paused is resumed.
    pub(crate) async fn run(mut self) {
        while !self.world.closing.load(Ordering::Relaxed) {
            sleep(self.dice.millis(200, 900)).await;
            if self.dice.chance(3) {
                self.pause().await;
            } else {
                self.meddle().await;
            }
        }
    }

    async fn meddle(&mut self) {
        let any = if self.dice.chance(80) {
            self.known.fresh(&mut self.dice)
        } else {
            self.known.any(&mut self.dice)
        };
        let Some((_, tx)) = any else { return };
        let node = self.dice.index(self.world.nodes.len());
        // Most of what is remembered has ended; asking those again would only be refused.
        let heard = get(&self.world, node, &format!("/api/v1/tx/{tx}")).await;
        let state = heard.body["state"].as_str().unwrap_or_default();
        if ["CONFIRMED", "FAILED_FINAL"].contains(&state) && self.dice.chance(90) {
            return;
        }
        let action = match self.dice.below(100) {
            0..30 => "RESUBMIT",
            30..75 => "REPLACE",
            75..92 => "CANCEL",
            _rest => "PLACEHOLDER",
        };
        remedy(&self.world, node, &tx, action).await;
    }

    async fn pause(&mut self) {
        let lane = self.dice.index(self.world.lanes.len());
        lane_act(&self.world, lane, "pause").await;
        sleep(self.dice.millis(300, 2_000)).await;
        // Whatever was said to the pause, it may have happened.
        while !lane_act(&self.world, lane, "resume").await {
            sleep(Duration::from_millis(500)).await;
        }
    }
}
