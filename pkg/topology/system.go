package topology

// The subjects of the system account, which the bus itself answers and publishes.
const (
	SystemClaimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"      // replaces an account's JWT on every server
	SystemSettings     = "$SYS.REQ.SERVER.PING.VARZ"   // how each server is set up
	SystemStats        = "$SYS.REQ.SERVER.PING.STATSZ" // among others, how many servers there are
	SystemAccountStats = "$SYS.REQ.ACCOUNT.PING.STATZ" // among others, how many connections an account has
	SystemStreams      = "$SYS.REQ.SERVER.PING.JSZ"    // what each server keeps of the streams
	SystemGroups       = "$SYS.REQ.SERVER.PING.RAFTZ"  // how far the replicas of each stream agree
	SystemHealth       = "$SYS.REQ.SERVER.PING.HEALTHZ"
)

// SystemClaimsLookup returns the subject on which every server answers with an account's JWT.
func SystemClaimsLookup(accountKey string) string {
	return "$SYS.REQ.ACCOUNT." + accountKey + ".CLAIMS.LOOKUP"
}

// SystemConnections returns the subject on which one server lists its connections.
func SystemConnections(server string) string { return "$SYS.REQ.SERVER." + server + ".CONNZ" }

// SystemKick returns the subject on which one server ends a connection.
func SystemKick(server string) string { return "$SYS.REQ.SERVER." + server + ".KICK" }

// SystemConnect returns the subject that announces each new connection of an account.
func SystemConnect(accountKey string) string { return "$SYS.ACCOUNT." + accountKey + ".CONNECT" }

// SystemDisconnect returns the subject that announces the end of each connection of an account.
func SystemDisconnect(accountKey string) string { return "$SYS.ACCOUNT." + accountKey + ".DISCONNECT" }

// accessSystem is what the service access may do in the system account: change accounts, watch and end
// connections, and read the state of the bus.
var accessSystem = Permissions{
	Publish: []string{
		SystemClaimsUpdate, SystemClaimsLookup(anyToken), SystemStats, SystemAccountStats,
		SystemStreams, SystemGroups, SystemHealth, SystemConnections(anyToken), SystemKick(anyToken),
	},
	Subscribe: []string{Inbox(UserAccessSystem) + ".>", SystemConnect(anyToken), SystemDisconnect(anyToken)},
	Payload:   DefaultPayload,
}
