package packages

import (
	"regexp"
	"strings"
)

var (
	numbers = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)
	foreign = regexp.MustCompile(`[^A-Za-z0-9._+~-]+`)
	inner   = regexp.MustCompile(`[^A-Za-z0-9.]+`)
)

// imageVersion returns the version of an image for that of a package. 1.5.0 with the revision 1+b6 is 1.5.0_1+b6, which
// comes after 1.5.0; what comes before a release, 2.0~rc1, is its pre-release 2.0.0-rc1.
func imageVersion(upstream, revision string) string {
	upstream = strings.ReplaceAll(upstream, "^", "_")
	core, pre, isPre := strings.Cut(upstream, "~")
	if numbers.MatchString(core) && (isPre || revision == "") {
		core += strings.Repeat(".0", 2-strings.Count(core, "."))
	}
	if isPre {
		return core + "-" + strings.Trim(inner.ReplaceAllString(pre+"."+revision, "-"), "-.")
	}
	if revision == "" {
		return core
	}
	return foreign.ReplaceAllString(strings.ReplaceAll(core, "-", "_")+"_"+revision, "_")
}
