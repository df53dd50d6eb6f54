//! What every store must do. Each scenario is a story about one rule of the port; an adapter runs
//! all of them on itself with [`conformance!`], and [`model::agree`] compares it, step by step, with
//! another one and with a model that fits in the head.
//!
//! Only the port is used here: nothing may know tables, SQL or which adapter is running.

// This crate is test code: a panic is how a scenario says no, and its text is the assertion's.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod bench;
pub mod builders;
pub mod dump;
pub mod leases;
pub mod fences;
pub mod accepting;
pub mod nonces;
pub mod queue;
pub mod deadlines;
pub mod moves;
pub mod feed;
pub mod due;
pub mod reservations;
pub mod retiring;
pub mod remedies;
pub mod decisions;
pub mod acts;
pub mod lanes;
pub mod importing;
pub mod reads;
pub mod limits;
pub mod concurrency;
pub mod model;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Store, Terms};

/// How an adapter is put under test. The expression given to [`conformance!`] makes one with a
/// fresh, empty store for each scenario.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A handle on the store.
    async fn store(&self) -> Arc<dyn Store>;

    /// Another handle on the same store, as another node has it; none where only one can be.
    async fn second_handle(&self) -> Option<Arc<dyn Store>>;

    /// Lets the store's clock pass. Where the clock cannot be moved, every stored time that is
    /// compared with it moves back instead: leases, heartbeats, due work, reservations, endings. Other times
    /// may move or not.
    async fn advance(&self, by: Duration);

    /// The terms of the store's leases. On a clock that runs by itself they should be minutes, so
    /// that a slow machine does not lose leases in the middle of a scenario.
    fn terms(&self) -> Terms;
}

/// Every scenario, for whoever wants the list: `scenarios!(callback[tokens])` calls
/// `callback! { [tokens] theme { scenario … } … }`.
#[macro_export]
macro_rules! scenarios {
    ($callback:ident $pass:tt) => {
        $crate::$callback! { $pass
            leases {
                a_first_bid_leads_with_token_one
                a_second_bid_of_the_leader_renews_under_the_same_token
                a_fresh_bid_takes_a_new_token_and_fences_the_old_one
                another_node_takes_over_only_after_expiry_and_skew
                an_expired_leader_is_fenced_until_it_bids_again
                a_restarted_node_takes_its_lanes_back_at_once
                a_released_lane_is_free_at_once_and_its_token_stays
                an_expired_lease_can_still_be_released
                renewals_answer_lane_by_lane
                every_fenced_write_renews_the_lease
                tokens_and_cursors_never_go_back
                bids_answer_lane_by_lane
                nodes_that_beat_lately_see_each_other
                a_ghost_learns_it_from_its_heartbeat
                a_node_that_never_joined_cannot_beat
            }
            fences {
                after_a_takeover_every_write_of_the_old_leader_is_fenced
                after_expiry_every_write_is_fenced
                after_a_release_every_write_is_fenced
                a_token_from_the_future_is_fenced
                another_nodes_token_is_fenced
                one_lost_lane_does_not_stop_the_others
            }
            accepting {
                new_transactions_get_consecutive_nonces_in_order
                the_first_event_tells_that_a_nonce_was_given
                what_was_given_is_read_back_unchanged
                a_repeated_request_is_known_and_spends_no_nonce
                another_request_under_a_used_name_conflicts
                duplicates_within_one_batch_meet_the_first
                an_id_counts_before_a_name
                a_conflicting_item_takes_no_name
                one_name_on_two_lanes_is_two_transactions
                names_that_only_look_alike_are_different
                known_requests_are_answered_without_leadership
                lanes_of_one_call_are_written_or_refused_on_their_own
                one_id_sent_to_two_lanes_is_stored_once
                an_empty_batch_writes_nothing
            }
            nonces {
                a_wrong_cursor_is_refused_with_the_right_one
                free_nonces_go_first_and_lowest_first
                only_the_free_nonces_that_are_used_must_be_free
                free_nonces_that_are_not_named_stay_free
                a_lane_at_its_end_is_exhausted
                a_placeholder_fills_a_gap
                a_placeholder_takes_a_free_nonce_away
                a_placeholder_never_takes_a_held_nonce
                no_batch_gives_one_nonce_twice
                a_placeholder_above_the_cursor_is_impossible
            }
            queue {
                queued_transactions_wait_in_order_of_arrival
                lanes_with_a_queue_are_listed_by_id
                the_backlog_is_told_by_chain
                the_backlog_tells_what_is_stuck_and_why
                queueing_needs_no_leadership
                duplicates_are_met_in_the_queue_and_beyond
                a_full_queue_takes_no_more
                an_unknown_lane_queues_nothing
                what_waits_goes_before_what_is_new
                a_known_request_holds_no_placeholder_back
                promotion_gives_nonces_to_the_front_of_the_queue
                promoting_anything_but_the_front_is_stale
                a_refused_promotion_leaves_the_queue_alone
                promotions_of_many_lanes_answer_lane_by_lane
                an_expired_or_cancelled_transaction_leaves_the_queue
            }
            deadlines {
                a_late_transaction_is_given_no_nonce
                a_late_transaction_is_not_promoted
                a_row_keeps_its_seal
            }
            moves {
                an_attempt_is_stored_before_it_is_sent
                attempts_are_numbered_and_never_change
                an_acceptance_is_never_unlearned
                an_outcome_needs_its_attempt
                a_known_hash_stops_the_whole_lane
                a_stale_move_changes_nothing_of_its_lane
                lanes_of_one_move_answer_on_their_own
                a_reorg_clears_the_receipt_and_goes_back_and_forth
                published_confirmations_are_read_from_where_a_list_begins
                a_rejected_transaction_gives_its_nonce_back
                the_last_error_is_kept_and_cut
                a_lanes_history_has_no_holes
            }
            feed {
                a_completion_tells_how_it_ended
                what_has_ended_is_no_longer_due
                completions_are_numbered_in_order_across_lanes
                a_reader_goes_on_from_where_it_stopped
                a_stuck_transaction_is_told_and_goes_on
                a_send_of_stuck_bytes_is_not_told
                a_reorg_after_the_end_is_a_correction
                the_feed_tells_the_use_of_a_reservation
            }
            due {
                the_longest_due_is_claimed_first
                a_claim_puts_work_off
                only_bytes_to_send_count_a_try
                a_move_sets_the_time_or_keeps_it
                a_reservation_is_due_after_its_grace
                a_submitted_nonce_is_due_when_the_call_says
                the_next_leader_claims_what_the_last_one_left
                a_paused_lanes_work_is_still_claimed
                lanes_with_work_and_no_leader_are_orphans
                lanes_that_have_just_lost_their_leader_are_found
                whatever_has_not_ended_makes_an_orphan
            }
            reservations {
                a_reservation_shares_the_lanes_nonces
                a_holder_names_what_it_has_sent
                a_holder_cannot_name_someone_elses_hash
                a_recycled_nonce_is_given_out_again
                what_was_sent_cannot_be_recycled_or_extended
                an_extension_gives_more_time_and_never_less
                a_wrong_lock_opens_nothing
                only_a_reservation_can_be_settled
                a_late_hash_is_recorded_against_a_lost_nonce
                a_nonce_whose_late_hash_is_recorded_is_still_free
                late_hashes_are_recorded_up_to_a_bound
                a_submitted_nonce_is_followed_to_its_use
                a_used_nonce_can_still_be_named
                holders_need_no_leader
                a_holder_is_faster_than_an_expiry
            }
            retiring {
                what_ended_long_ago_is_made_small
                a_lane_without_its_history_tells_on
                a_request_id_outlives_the_payload
                the_feed_begins_after_what_is_deleted
                nonces_of_what_is_deleted_stay_used
                what_was_reopened_is_left_alone
                what_is_stuck_is_left_alone
                what_is_not_deep_enough_is_left_alone
                batches_are_small_and_go_on
                what_is_audited_stays_small
                reservations_are_retired
                creates_and_deletions_do_not_meet
            }
            remedies {
                a_remedy_is_asked_claimed_and_carried_out
                one_remedy_runs_at_a_time
                a_round_is_asked_once
                only_the_unfinished_can_be_remedied
                the_next_leader_carries_out_what_was_claimed
                a_remedy_is_closed_once
                a_refused_remedy_is_closed_too
                a_remedy_for_what_has_ended_is_dropped
                remedies_are_claimed_oldest_first
                a_remedy_is_read_back_as_it_was_asked
                a_remedy_makes_an_orphan_of_its_lane
                a_remedy_is_closed_without_a_change_of_state
                what_ended_stays_ended_when_its_remedy_is_closed
            }
            decisions {
                a_decision_takes_the_place_of_the_question
                whatever_was_decided_is_claimed_by_the_next_leader
                a_first_claim_is_told_from_a_later_one
                a_decision_to_do_nothing_closes_the_round
                only_a_claimed_question_is_decided
                the_next_leader_answers_what_was_left_open
                a_decision_is_made_once
                a_paused_lanes_questions_are_decided
                a_question_is_no_decision
            }
            acts {
                the_audit_follows_a_remedy_to_its_end
                the_audit_tells_that_a_remedy_came_too_late
                acts_are_read_from_the_newest_down
                acts_on_a_lane_tell_what_they_changed
                the_audit_is_read_in_order_with_what_was_refused
                the_unknown_have_no_acts
                lanes_with_remedies_to_see_to_are_listed_by_id
            }
            reads {
                a_usable_store_answers_a_ping
                a_transaction_is_found_by_any_of_its_names
                a_nonce_names_its_holder_of_the_moment
                many_are_found_by_id
                pages_run_from_the_newest_down
                pages_miss_and_repeat_nothing_while_others_write
                the_unfinished_are_listed_by_nonce
                a_history_is_read_from_any_point_on
                every_state_is_read_back_as_it_was_written
                the_greatest_numbers_are_read_back
            }
            lanes {
                opening_a_lane_twice_gives_the_same_id
                an_unknown_lane_is_answered_as_such
                a_view_shows_what_holds_the_lane_up
                lanes_are_listed_page_by_page
                paused_lanes_are_counted_by_chain_and_reason
                a_paused_lane_gives_nothing_but_follows
                a_pause_outlives_its_leader
                reconciling_raises_the_cursor_to_the_chain
                a_leader_raises_its_cursor_and_never_lowers_it
                what_is_free_is_forgotten_below_the_chains_count_alone
                the_audit_of_many_dropped_nonces_is_cut
                an_operator_sets_a_cursor_above_what_is_held
                gaps_are_nonces_that_nobody_holds
            }
            importing {
                what_is_taken_over_is_followed_and_lent_like_our_own
                an_import_is_written_whole_or_not_at_all
                a_dry_run_changes_nothing
                only_a_paused_lane_takes_over_anything
                a_cursor_is_never_imported_below_what_is_held
                nonces_that_were_given_back_and_are_open_elsewhere_are_free_no_longer
                an_import_ends_what_its_leader_remembers
                an_import_names_nothing_twice_and_is_bounded
            }
            limits {
                reads_are_bounded
                writes_are_bounded
                the_greatest_batch_is_written
                nothing_is_named_twice_in_one_call
                what_the_feed_tells_is_completed_and_only_that
                only_managed_transactions_can_wait
                nobody_pauses_a_lane_for_a_failover
                long_texts_are_refused
                long_times_are_refused
                rounds_are_counted_from_one
                a_cursor_is_not_raised_under_another_lanes_token
            }
            concurrency {
                a_hundred_creates_of_one_request_are_one_transaction
                a_thousand_creates_on_one_lane_get_consecutive_nonces
                of_many_bids_one_wins
                concurrent_requests_are_queued_once_each
                concurrent_ends_leave_no_hole_in_the_feed
                of_two_moves_on_one_version_one_is_written
                a_takeover_amid_writes_leaves_a_sound_lane
            }
        }
    };
}

/// One test for each scenario, in a module for each theme. The expression makes a [`Harness`] with a
/// fresh store; it is evaluated once for each test, in an async function.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::scenarios!(conformance_of[$harness]);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_of {
    ([$harness:expr] $($theme:ident { $($scenario:ident)* })*) => {
        $(mod $theme {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                let harness = $harness;
                $crate::$theme::$scenario(&harness).await;
            })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! names_of {
    ([] $($theme:ident { $($scenario:ident)* })*) => {
        [$((stringify!($theme), vec![$(stringify!($scenario)),*])),*]
    };
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// A scenario that is written and not listed would never run, on any adapter.
    #[test]
    fn every_scenario_is_listed() {
        let sources = Path::new("src");
        for (theme, listed) in crate::scenarios!(names_of[]) {
            let source = std::fs::read_to_string(sources.join(format!("{theme}.rs"))).unwrap();
            let written = source.lines().filter_map(|line| {
                let (name, _) = line.strip_prefix("pub async fn ")?.split_once('(')?;
                Some(name)
            });
            assert_eq!(written.collect::<Vec<_>>(), listed, "{theme}");
        }
    }
}
