// Package agentlog implements garrison logs, which prints the output of an agent on a server.
package agentlog
