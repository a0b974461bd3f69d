// Package wait builds the commands garrison watch and garrison wait: the progress and the end of intents and tasks.
package wait
