// Package decision decides who becomes a user, whose credentials are signed again, and who is revoked.
// Its functions are pure: given the view, the time and the request, they return the facts to record.
package decision
