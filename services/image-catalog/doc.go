// Package catalog is the image-catalog: it answers what can be installed. It alone
// writes facts about images and channels, and stores the content of images in chunks.
//
// Guarantees:
//
//  1. A version never changes: an agent, version and platform have one image, whatever
//     number of catalogs is asked at once.
//  2. An image is activated only after every byte of it was read back from the bus and
//     had the digest of its manifest. Should its content go at the same moment, because
//     another image that shared it was deleted, it is disabled again at once.
//  3. No chunk is stored that does not have the digest in a manifest.
//  4. Every request may be made again: what already holds is left as it is. Only what is
//     deleted is not found the second time.
//  5. What a request changed can be seen in the answer and by every later request to
//     the same catalog. A catalog that does not know what is named first reads to the
//     end of the ledger.
//
// An upload can be stopped at any time and continued by anyone: MissingChunks says what
// is left.
package catalog
