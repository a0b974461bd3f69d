// Package version holds the version that the build stamps into every binary.
package version

// Version is set with -ldflags "-X …/pkg/version.Version=v1.2.3". A binary built without it says so.
var Version = "unstamped"
