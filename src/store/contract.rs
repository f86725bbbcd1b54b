//! The contract suite: what every backend must do, as functions over `&dyn Store`.
//!
//! A backend joins with one line, `contract_suite!(name, opener)`, where the opener is an async function, named by its full path, that returns
//! an [`Opened`] of a fresh, empty store, or `None` where there is no server for it. A new method of a trait comes with a function here.

pub(crate) mod budgets;
pub(crate) mod changes;
pub(crate) mod digests;
pub(crate) mod episodes;
pub(crate) mod facts;
pub(crate) mod fixtures;
pub(crate) mod index;
pub(crate) mod isolation;
pub(crate) mod keys;
pub(crate) mod knowledge;
pub(crate) mod learn;
pub(crate) mod outbox;
pub(crate) mod scopes;
pub(crate) mod targets;
pub(crate) mod upkeep;
pub(crate) mod usage;
pub(crate) mod vectors;
pub(crate) mod windows;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Store;

/// A fresh store, and what must live as long as it does.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// As the folder that the files are in.
    pub(crate) keep: Box<dyn Any + Send>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// Runs every function of the suite on a backend, each on a store of its own.
macro_rules! contract_suite {
    ($backend:ident, $open:path) => {
        $crate::store::contract::contract_suite! { @all $backend, $open:
            outbox { an_appended_exchange_is_claimed_with_all_that_was_said
                     a_new_exchange_is_due_though_the_clock_jumped_back
                     claims_come_oldest_first_and_no_more_than_asked
                     a_leased_exchange_is_not_claimed_again_until_its_lease_ends
                     a_scope_with_a_live_lease_is_left_out
                     appending_the_same_exchange_again_changes_nothing
                     a_failed_exchange_waits_for_its_next_try_and_does_not_hold_up_others
                     an_exchange_that_was_given_up_is_a_dead_letter
                     failing_an_exchange_of_another_owner_changes_nothing
                     depth_counts_what_waits_and_what_is_dead
                     an_exchange_without_a_turn_leaves_only_what_was_shown_and_its_state }
            learn { what_was_learned_is_stored_and_the_exchange_is_gone
                    several_exchanges_of_one_scope_build_on_each_other
                    a_decision_on_an_older_revision_is_stale_and_stores_nothing
                    what_rests_on_a_result_that_was_not_stored_is_stale
                    a_user_turn_is_learned_once_in_ten_minutes
                    a_seen_turn_still_leaves_the_reply
                    a_lost_lease_stores_nothing
                    nothing_is_learned_twice
                    an_exchange_that_teaches_nothing_leaves_the_revision
                    episodes_are_marked_with_the_facts_they_mention_that_were_retired
                    a_version_that_differs_is_stale
                    what_was_learned_at_once_is_stored_and_the_exchange_is_not
                    what_was_learned_at_once_on_an_older_revision_waits
                    where_something_was_deleted_nothing_is_learned_at_once
                    what_was_learned_at_once_of_an_erased_scope_or_a_seen_turn_is_not_stored
                    a_large_group_is_stored_whole
                    an_empty_group_is_nothing }
            facts { changes_are_listed_in_order_and_by_page
                    facts_are_filtered_by_key_and_status
                    every_change_is_in_the_history_with_the_value_before
                    a_change_of_another_version_is_refused_whole
                    a_fact_cannot_be_inserted_twice
                    a_key_of_one_value_gets_no_second_one
                    a_deleted_fact_is_gone_and_its_words_are_barred
                    revisions_grow_by_one_with_each_change }
            episodes { an_episode_comes_back_as_it_was_put
                       episodes_are_listed_in_order_by_page_and_filter
                       the_newest_episodes_come_first_and_by_page
                       episodes_are_read_by_their_ids_within_a_scope
                       a_use_is_counted_without_a_new_revision
                       a_deleted_episode_leaves_a_tombstone
                       marks_are_put_on_and_taken_off
                       what_was_deleted_is_not_brought_back_by_a_change }
            scopes { an_unknown_scope_has_revision_and_epoch_zero
                     a_state_is_found_until_it_runs_out
                     a_state_of_an_older_revision_does_not_replace_a_newer_one
                     what_was_shown_is_found_by_its_exchange
                     proposals_are_listed_by_status
                     a_signal_moves_the_scores_of_what_was_shown_within_bounds
                     a_shared_secret_is_made_once
                     erasure_takes_everything_and_counts_it
                     an_exchange_from_before_an_erasure_leaves_nothing
                     erased_words_are_barred_and_new_words_are_not
                     the_sweep_takes_what_has_run_out_and_no_more_than_asked
                     what_was_said_stays_where_that_is_wanted_and_goes_by_its_age
                     namespaces_are_those_in_which_the_subject_has_something
                     a_ping_is_answered }
            keys { a_key_is_found_by_its_hash_alone
                   keys_are_listed_in_order_and_by_page
                   a_rotated_key_has_two_secrets_until_the_old_one_ends
                   a_key_is_revoked_once_and_stays_listed
                   the_last_use_of_a_key_only_moves_forward
                   what_ends_a_secret_is_a_new_revision_and_nothing_else_is }
            windows { a_window_is_due_when_its_conversation_has_been_idle
                      a_full_window_is_due_at_once_and_the_next_turn_opens_another
                      a_turn_waits_once_however_often_it_is_queued
                      a_full_queue_turns_further_turns_away_and_counts_them
                      a_turn_stays_though_its_outbox_row_is_gone
                      what_a_window_taught_is_stored_in_order_and_the_window_is_gone
                      a_window_decided_on_an_older_revision_is_stale_and_stays
                      a_window_that_was_lost_stores_nothing
                      a_window_that_failed_waits_and_one_that_is_given_up_leaves_dead_letters
                      what_waited_in_vain_for_a_month_is_swept
                      what_rests_on_a_turn_takes_it_along_when_it_is_deleted
                      a_tenant_that_spent_what_it_may_waits_until_the_next_day }
            changes { every_change_has_its_place_and_none_comes_twice
                      of_an_episode_only_the_newest_state_is_told
                      what_is_deleted_or_erased_is_told
                      changes_of_another_scope_are_not_told
                      histories_come_whole_and_replay_to_the_present
                      a_reader_beside_writers_misses_nothing_and_sees_nothing_twice
                      of_two_first_values_learned_at_once_one_stands }
            upkeep { scopes_are_listed_in_pieces_and_erased_ones_are_not
                     active_episodes_of_all_tenants_are_counted
                     what_is_forgotten_goes_in_one_step
                     forgetting_on_an_older_revision_does_nothing
                     what_was_archived_long_ago_goes_and_no_more_than_asked
                     what_is_dropped_may_be_told_again
                     a_mark_is_kept
                     audit_rows_belong_to_their_scope_and_go_with_it
                     subject_use_adds_up_and_goes_with_the_subject }
            digests { the_first_summary_that_there_is_is_found_until_it_runs_out
                      a_cut_that_was_settled_stays_so
                      a_settled_cut_keeps_its_summary_and_lives_on_while_it_is_used
                      what_was_summed_up_before_an_erasure_is_not_kept_after_it
                      the_sweep_takes_digests_that_have_run_out
                      a_response_is_found_where_it_was_handed_out_and_nowhere_else }
            targets { a_target_is_found_as_it_was_put_with_the_next_revision
                      a_target_of_another_revision_is_not_overwritten
                      of_very_many_targets_the_oldest_are_forgotten }
            usage { what_was_booked_is_summed_up_in_order
                    a_row_is_booked_once
                    a_row_like_most_is_booked_as_it_is
                    groups_come_in_pieces_and_only_of_what_was_asked
                    what_has_no_price_is_in_no_amount
                    what_was_learned_from_is_booked_with_it
                    an_erased_subject_is_taken_out_and_does_not_come_back
                    old_rows_are_swept_and_no_more_than_asked }
            budgets { what_was_used_adds_up_and_is_told_at_once
                      what_was_used_never_reads_as_less_than_nothing no_sum_is_too_large_to_be_kept
                      it_is_known_when_use_was_written_last
                      what_is_over_is_forgotten_and_no_more_than_asked }
            vectors { a_generation_is_begun_once_and_found_again
                      the_making_of_vectors_is_leased_to_one_at_a_time
                      what_is_due_comes_in_order_and_from_where_it_was_left
                      what_was_changed_since_comes_again_with_its_old_vector
                      what_went_comes_in_the_same_order
                      vectors_are_read_by_scope_and_generation
                      a_vector_of_an_episode_that_is_gone_is_not_kept
                      whoever_lost_the_lease_stores_nothing
                      a_generation_that_is_rewound_is_made_anew_and_goes_on_being_used
                      erasure_takes_the_vectors_of_every_generation_and_counts_them
                      a_generation_that_nobody_uses_is_dropped_piece_by_piece
                      a_generation_in_use_is_not_dropped }
            knowledge { a_document_comes_back_as_it_was_put
                        a_replaced_document_loses_its_old_passages_at_once
                        documents_are_listed_in_order_and_by_page
                        a_deleted_document_is_gone_with_its_passages
                        a_namespace_holds_no_more_than_it_may
                        documents_are_not_seen_across_namespaces }
            isolation { nothing_is_read_across_scopes
                        nothing_is_changed_across_scopes
                        erasing_one_scope_leaves_all_others_as_they_were
                        names_that_run_together_are_different_scopes }
        }
    };
    (@all $backend:ident, $open:path: $($subject:ident { $($test:ident)* })*) => {
        mod $backend {
            $(mod $subject {
                $(#[tokio::test]
                async fn $test() {
                    let Some(opened) = $open().await else { return };
                    $crate::store::contract::$subject::$test(opened.store.as_ref()).await;
                    drop(opened.keep);
                })*
            })*
        }
    };
}
pub(crate) use contract_suite;
