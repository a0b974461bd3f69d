// Package ssh runs the executor's program on the machine of a dead server over ssh, to remove what Garrison left there.
//
// Host is the whole interface: where to log in and which program to run. Host.Clean runs it once and returns its
// outcome; a run that ended without one is an outcome with a refusal.
//
//  1. The server's tombstone is sent along. The program there verifies it and decides by itself what it removes.
//  2. Every word of the remote command line is quoted. A login that ssh would read as an option is refused.
//  3. An uploaded program that did not arrive whole is not run, and is removed however the run ends.
//  4. Output is read up to a bound.
package ssh
