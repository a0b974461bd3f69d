// Package view is the view of access: every user, every server, and every key for which credentials
// were signed that may still be valid. It answers which of those keys the bus must refuse.
package view
