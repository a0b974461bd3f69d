// Package operator is the operator's command line, the binary garrison. It talks to the bus only: it calls services,
// publishes intents, and reads the ledger.
//
// Guarantees:
//
//  1. Data is printed to standard output, messages to standard error. Without a terminal there is no prompt, no colour
//     and no redrawn line.
//  2. The exit code tells the outcome; garrison help exit-codes lists the codes.
//  3. A refusal by a service is printed as one line, as the service wrote it. A line that begins with "garrison: " is
//     the command line's own.
//  4. JSON keys are those of the protos, in lower camel case.
//  5. An intent is published under a new id that is its message id too, so that a retry stores it once.
//  6. Leaving the view, by Ctrl-C or by a time-out, never stops the work.
//  7. Every wait has a bound: a call 5 s, an intent's decision 30 s, a view its --timeout.
//
// The packages below internal lie in layers. Package output prints data and package display describes the nouns; both
// are pure. Package cli is the environment of a command. Packages fleet, selector, work and watch are shared by several
// nouns. Each noun has a package of its own, and the verbs install, up, configure, remove and undo are in package
// change. To add a verb, follow docs/add-a-verb.md.
package operator
