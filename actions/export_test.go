package actions

// AfterExit is tested by itself.
var AfterExit = afterExit
