// Package check builds garrison check, which compares what is wanted with what is there, and cures what differs.
package check
