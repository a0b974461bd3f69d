// Package agent builds the commands of garrison agent.
package agent
