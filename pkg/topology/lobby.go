package topology

// UserLobby is the name of the login that every machine without a token shares. It is no secret: its permissions and
// LobbyConnections bound what can be done with it.
const UserLobby = "lobby"

// LobbyConnections is how many connections the account LOBBY has at most. A machine connects, asks, and leaves.
const LobbyConnections = 128

// LobbySubscriptions is how many subscriptions a connection in the lobby has at most: answers are sealed, and copies of
// them cost.
const LobbySubscriptions = 2

// LobbyPermissions is the template for a machine without a token.
var LobbyPermissions = Permissions{
	Publish:   []string{KnockSubjects},
	Subscribe: []string{Inbox(ownName) + ".>"},
	Payload:   KnockPayload,
}
