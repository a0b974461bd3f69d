// Package cli is what every command of garrison builds on: its environment, its flags, its errors and exit codes.
//
// Env is one run of the command line: the streams, the printer and the connection to the bus, which Env.Connect opens
// at its first use. Call asks a service; Collect and List read a paged list. Group, Exactly and AtMost build cobra
// commands; the ...Var functions add flags that refuse meaningless values before anything is asked.
//
//  1. The exit codes (exit.go) are part of the interface and never change.
//  2. A service's refusal is printed as the service wrote it. A line that begins with "garrison: " is the command
//     line's own.
//  3. Every call has a deadline: 5 s by default, 40 s for the activation of an image.
//  4. Confirm never prompts when standard input is not a terminal.
package cli
