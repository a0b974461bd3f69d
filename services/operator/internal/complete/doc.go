// Package complete adds the completion of names and values: servers, agents, environments, channels, applications and
// the words of flags.
package complete
