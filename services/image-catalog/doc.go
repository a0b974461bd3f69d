// Package catalog is the image-catalog: the service that answers what can be installed. It alone
// writes facts about images and channels, and stores the content of images in chunks.
//
// Guarantees:
//
//  1. A version never changes: an agent, version and platform have one image, however many catalogs
//     receive requests at once.
//  2. An image is activated only after every byte of it was read back from the bus and had the
//     digest of its manifest. If its content is purged at the same moment, because another image
//     that shared it was deleted, the image is disabled again at once.
//  3. A stored chunk always has the digest of a manifest.
//  4. Every request is safe to repeat: what already holds stays as it is. Only a deleted image or
//     channel is not found the second time.
//  5. The answer to a request, and every later request to the same catalog, shows what the request
//     changed. Before a catalog refuses a request, its view catches up with the ledger.
//  6. A server receives chunks of the images that its document names, or named half a minute ago, and no
//     others. However much it requests, it delays no other server by more than its turn.
//
// An upload can be stopped at any time and continued by any client: MissingChunks lists what is left.
package catalog
