// Package complete adds the completion of names and values: servers, agents, environments, channels, applications, the
// ids of intents and the words of flags.
package complete
