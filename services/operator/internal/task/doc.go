// Package task builds the commands of garrison task: list, show, wait and cancel.
//
// A task that the dispatcher no longer keeps is read from the ledger by its whole id.
package task
