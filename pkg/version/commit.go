package version

// Commit is the commit of a release, set as Version is; empty in other builds.
var Commit string

// Full returns the version, and with it the commit of a release.
func Full() string {
	if Commit == "" {
		return Version
	}
	return Version + " (commit " + Commit + ")"
}
