// Package hold builds the commands garrison hold and garrison unhold.
package hold
