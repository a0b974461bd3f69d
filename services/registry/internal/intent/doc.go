// Package intent decides intents. Decide returns either everything that an intent changes, or why
// it changes nothing. It is pure: the same arguments lead to the same facts under the same ids.
//
// Guarantees:
//
//  1. A decision is whole: accepted with all of its changes, or refused with none.
//  2. Each fact is guarded by the last sequence of its own key, so that a decision on an
//     outdated view is not recorded. The intent's own key is guarded by 0, so that an intent
//     is decided once.
//  3. The answer comes last. A decision that is too large for one atomic batch is recorded in
//     several. After an interruption, a new decision counts what was already changed as
//     changed, and never refuses an intent that has begun.
//  4. Plan decides as Decide does and drafts nothing. An intent with dry_run set drafts its
//     answer alone.
package intent
