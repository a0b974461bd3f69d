// Package view is the image-catalog's view: a fold of the facts about images and channels, with
// the indexes and queries that requests and decisions need.
//
// It is pure: no clock, log, bus or files. The lives of the nouns are in pkg/noun.
//
// Guarantees:
//
//  1. Apply is a function of the facts; a view that is loaded from tables equals the one that wrote them.
//  2. An agent, version and platform have one image at most.
//  3. A channel holds only images that exist: a deleted image leaves its channels.
package view
