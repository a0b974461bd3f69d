// Package token is the command token: pooled enrolment tokens, with each of which many servers join.
package token
