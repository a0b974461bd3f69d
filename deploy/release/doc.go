// Package release makes a release of Garrison: programs for two architectures, deb and rpm packages, archives, a bill
// of materials of each program, checksums, and a signature.
//
//	err := release.Make(ctx, release.Options{Root: ".", Out: "bin/release", Version: "1.2.3", …})
//	err = release.Verify("bin/release/1.2.3", keys)
//
// Guarantees:
//
//  1. The same commit, built by the same Go and with the same keys, makes the same bytes, whatever the machine, its
//     path, its clock, its zone and its umask are.
//  2. A release of a tree with changes that are not committed is refused, unless it is a local build, whose version
//     carries that and precedes the version that it names.
//  3. A release appears whole or not at all.
//  4. A signature never expires, and Verify needs no network and no clock.
//
// What the scripts of the packages do, and never do, is in deploy/docs/packages.md.
package release
