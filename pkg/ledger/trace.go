package ledger

import "regexp"

// traceparent is the header of version 00 of W3C Trace Context.
var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

const (
	noTrace = "00000000000000000000000000000000"
	noSpan  = "0000000000000000"
)

// CheckTrace returns a traceparent as it is, or "" for any other text: a sender decides what the header holds, and the
// ledger keeps it.
func CheckTrace(header string) string {
	if !traceparent.MatchString(header) || header[3:35] == noTrace || header[36:52] == noSpan {
		return ""
	}
	return header
}
