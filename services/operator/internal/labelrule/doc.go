// Package labelrule is the command label-rule.
package labelrule
