// Package report decides which facts a server's report of a task leads to.
//
// It is pure. Guarantees:
//
//  1. A report is believed only from the task's own server, while that server is enrolled, and only
//     about a task that was assigned. Any other report is refused as Invalid.
//  2. A report that repeats what is recorded leads to no fact.
//  3. The start of a task precedes its end, in whichever order the reports arrive.
//  4. Texts and lists of a report are cut to a bound before they become a fact.
package report
