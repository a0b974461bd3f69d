// Command seeds writes bugs that the executor's crash tests must catch, as overlays for the go command.
//
//	seeds DIR   writes DIR/NAME.json for each seed and prints NAME:PACKAGE:TEST, one line each
//
// PACKAGE and TEST say which crash test is for the seed. Build it with GOFLAGS=-overlay=DIR/NAME.json, so that
// the programs that the test builds have the bug as well. services/executor/crash-seeds.sh does that.
//
// Guarantees:
//
//  1. The production code knows nothing of a seed: no build tag, no hook.
//  2. A seed whose code has moved or changed is an error, not a build without the bug.
package main
