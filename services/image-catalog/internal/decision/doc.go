// Package decision holds the image-catalog's decisions: given the view, which facts a request
// leads to, or why it is refused.
//
// It is pure: no clock, log, bus or files. Drafts have no id, time and actor, which the shell
// fills in.
//
// Guarantees:
//
//  1. A draft is guarded so that it is recorded only on what the decision was taken on: by its
//     key, and a new image by all images that were ever created.
//  2. A decision whose outcome already holds has no drafts.
//  3. An agent, version and platform have one image, and images that share a digest share its
//     chunks.
package decision
