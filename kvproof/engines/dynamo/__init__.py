"""What the kit knows about Dynamo and its mocker."""
