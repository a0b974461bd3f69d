// Package testlog reads what go test -json prints and keeps what a person needs when a test fails: the failed tests,
// the first words of why, and a file with everything that its package printed.
//
//  1. A failed package is never lost: without a failed test, the end of its output says why.
//  2. A test that began and did not finish is named, because it is what a time-out or a crash cut off.
//  3. Memory is bounded: the words of a test and the end of a package are cut, files hold all of it.
package testlog
