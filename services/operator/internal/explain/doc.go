// Package explain builds garrison explain, which explains an error code, or the state of a server or agent and what
// happens next.
package explain
