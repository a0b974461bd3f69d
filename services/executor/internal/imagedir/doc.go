// Package imagedir keeps unpacked images: one sealed directory for each digest.
//
// Guarantees:
//
//  1. images/DIGEST is there whole or not at all: it is unpacked beside its place,
//     synced, sealed with a mark and then renamed, and renamed again before it is deleted.
//  2. The mark names the image and what the tree looked like, so that a file
//     that was changed, added or lost since is found without reading every byte.
//  3. What was removed does not come back when the power is cut.
//  4. Staging the same image again does nothing. Staging and removal of images are one at a time.
//  5. A damaged image is replaced as a whole by a copy staged beside it, in one step.
package imagedir
