// Package watch follows intents until all of their changes have ended, and prints the outcome.
//
//  1. Each poll costs the same, however many servers an intent changes.
//  2. Leaving the view, by Ctrl-C or by a time-out, never stops the work; how to return is printed.
//  3. While a service or the bus does not answer, the view retries.
package watch
