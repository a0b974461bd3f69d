// Package operator is the operator's command line, the binary garrison. It knows the bus and
// nothing else: it asks services, publishes intents, and reads the ledger.
//
// Guarantees:
//
//  1. Data goes to the standard output, talk to the standard error. What is not a terminal gets
//     no prompt, no colour and no moving line.
//  2. The exit code tells the story; codes.go lists them, and garrison help exit-codes prints them.
//  3. A refusal by a service is printed as one line, as the service gave it. A line that begins
//     with "garrison: " is the command line's own.
//  4. JSON keys are those of the protos, in lower camel case.
//  5. An intent is published under a new id that is its message id too, so that a retry stores it once.
//  6. Leaving the view, by Ctrl-C or by a time-out, never stops the work.
//  7. Every wait has a bound: a call 5 s, an intent's decision 30 s, a view its --timeout.
package operator
