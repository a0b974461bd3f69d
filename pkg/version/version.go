// Package version holds the version that the build stamps into every binary.
package version

import (
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Version is set with -ldflags "-X …/pkg/version.Version=v1.2.3". A binary built without it says so.
var Version = "unstamped"

// Contract is the number of the contract that this program knows: the messages of proto/ as they were when a release
// first had that number. It is raised when the contract gets a field, a value or a kind of fact after a release.
const Contract = 1

// described is what git describe adds to the version before: so many commits later.
var described = regexp.MustCompile(`-\d+-g[0-9a-f]+(-dirty)?$|-dirty$`)

// Unversioned reports whether a build has no version, as in development.
func Unversioned(version string) bool {
	_, err := release(version)
	return err != nil
}

// Before reports whether a version is older than the least one that is needed. A build
// without a version counts as the newest, because it was built by hand.
func Before(version, least string) bool {
	have, err := release(version)
	if err != nil || least == "" {
		return false
	}
	need, err := semver.StrictNewVersion(least)
	return err != nil || have.LessThan(need)
}

// Newer reports whether a version is of a newer release than another one. Builds without a version are not compared.
func Newer(version, than string) bool {
	a, err := release(version)
	b, other := release(than)
	return err == nil && other == nil && a.GreaterThan(b)
}

// release returns the version that a build is of, or comes after.
func release(version string) (*semver.Version, error) {
	return semver.StrictNewVersion(described.ReplaceAllString(strings.TrimPrefix(version, "v"), ""))
}
