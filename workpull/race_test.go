//go:build race

package workpull_test

const raceDetector = true
