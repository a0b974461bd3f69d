// Package view is what the image-catalog knows: a fold of the facts about images and
// channels, the questions that can be asked of it, and the decisions taken on it.
//
// It is pure: no clock, log, bus or files. Decisions give drafts without id, time and
// actor, which the shell fills in.
//
// Guarantees:
//
//  1. Apply is a function of the facts; a view read from its tables equals the one that wrote them.
//  2. A draft is guarded so that it is only recorded on what the decision was taken on:
//     by its key, and a new image by all images that were ever created.
//  3. A decision whose wish already holds gives no drafts.
//  4. There is one image of an agent, version and platform, and images that share a
//     digest share its chunks.
package view
