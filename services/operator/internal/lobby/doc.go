// Package lobby is the command lobby.
package lobby
