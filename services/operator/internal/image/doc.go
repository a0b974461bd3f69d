// Package image builds the commands of garrison image: build, sign and verify image files, transfer them to and from
// the catalog, and change their state there.
//
// An import is resumable: only chunks that the catalog lacks are sent, and a chunk that arrives twice changes nothing.
package image
