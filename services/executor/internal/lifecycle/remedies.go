package lifecycle

import (
	"cmp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// remedies maps codes to what a person on the server can do, where that differs from the advice for one elsewhere.
var remedies = map[string]string{
	code.BusAway: "garrisond health on the machine of the bus; name resolution and routes from here to its address; " +
		"the executor retries",
	code.BusStarting: "garrisond health on the machine of the bus; the executor retries",
	code.UnknownServer: "garrison server list --unknown; after the restore of a backup: garrison restore status; " +
		"else garrison server enroll NAME, and here executor join --root ANOTHER-DIR --token-file FILE",
	code.NotProvisioned: "a start of garrisond on the machine of the bus; the executor retries",
}

// statusThere is advice for a person elsewhere. On the server it is where the advice is read.
const statusThere = "executor status there; "

// Remedy returns what a person on the server can do about the code of an outcome; empty when the code is unknown.
func Remedy(why, serverID string) string {
	e, _ := code.Lookup(why)
	try := cmp.Or(remedies[why], strings.TrimPrefix(e.Remedy, statusThere))
	return strings.ReplaceAll(try, "SERVER", cmp.Or(serverID, "SERVER"))
}
