// Package intent decides intents: Decide looks at what is known and gives either
// everything that an intent changes or why it changes nothing. It is pure: what it is
// given decides, and the same again gives the same facts under the same ids.
//
// Guarantees:
//
//  1. A decision is whole: accepted with all of its changes, or refused with none.
//  2. Each fact is guarded by the last sequence of its own key, so that a decision that
//     was made on what is no longer true is not recorded. The intent's own key is
//     guarded by 0, so that an intent is decided once.
//  3. The answer comes last. A decision that is too large for one atomic unit is
//     recorded in several; when that is cut off, deciding again counts what was already
//     changed as changed, and never refuses an intent that has begun.
//  4. A dry run is the same decision without the changes.
package intent
